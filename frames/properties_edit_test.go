package frames

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendWithRawHeaders(t *testing.T) {
	headers := Table{{Key: "k", Value: "v"}, {Key: "n", Value: int64(5)}, {Key: "a", Value: Array{true}}, {Key: "none", Value: nil}}
	var raw []byte
	encoded := headers.Append(nil)[4:]
	for it := RawTable(encoded).Iter(); it.Next(); {
		raw = AppendRawField(raw, it.Key(), it.Value())
	}
	if diff := cmp.Diff(encoded, raw); diff != "" {
		t.Fatalf("fields encoded again (-want +got):\n%s", diff)
	}
	all := PropertyValues{
		ContentType: "t", ContentEncoding: "e", Headers: Table{{Key: "old", Value: int32(1)}}, DeliveryMode: 2, Priority: 3,
		CorrelationID: "c", Timestamp: 7, AppID: "app",
	}
	const around = FlagContentType | FlagPriority | FlagAppID
	for _, flags := range []uint16{
		0, FlagHeaders, FlagDeliveryMode, FlagHeaders | FlagDeliveryMode, around, around | FlagHeaders, around | FlagDeliveryMode,
		FlagContentEncoding | FlagHeaders | FlagDeliveryMode | FlagCorrelationID | FlagTimestamp,
	} {
		v := all
		v.Flags = flags
		p, err := ParseProperties(v.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []uint8{0, 1} {
			want := v
			want.Headers, want.Flags = headers, flags|FlagHeaders
			if mode != 0 && flags&FlagDeliveryMode == 0 {
				want.DeliveryMode, want.Flags = mode, want.Flags|FlagDeliveryMode
			}
			if diff := cmp.Diff(want.Append(nil), p.AppendWithRawHeaders(nil, encoded, mode)); diff != "" {
				t.Errorf("flags %#x, mode %d (-want +got):\n%s", flags, mode, diff)
			}
		}
	}
	var zero Properties
	want := append([]byte{byte(FlagHeaders >> 8), 0}, headers.Append(nil)...)
	if diff := cmp.Diff(want, zero.AppendWithRawHeaders(nil, encoded, 0)); diff != "" {
		t.Errorf("zero value (-want +got):\n%s", diff)
	}
}
