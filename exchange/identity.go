package exchange

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/frames"
)

// argumentsID returns a string that is equal for equal binding arguments and different for different ones: their
// encoding, keys sorted. It is empty for no arguments.
func argumentsID(args frames.Table) string {
	if len(args) == 0 {
		return ""
	}
	return string(canonical(args).Append(nil))
}

// canonical returns args with the keys of the top level sorted and each value in the one form its type has. The sort is
// stable: fields of the same key stay in their order, which tells such bindings apart.
func canonical(args frames.Table) frames.Table {
	sorted := slices.Clone(args)
	slices.SortStableFunc(sorted, func(a, b frames.Field) int { return strings.Compare(a.Key, b.Key) })
	for i := range sorted {
		sorted[i].Value = foldLong(sorted[i].Value)
	}
	return sorted
}

// foldLong rewrites `L` as `l`, inside arrays and tables too. Both are signed 64-bit integers and RabbitMQ forgets which
// one a client sent.
func foldLong(v any) any {
	switch v := v.(type) {
	case frames.LongLong:
		return int64(v)
	case frames.Table:
		folded := slices.Clone(v)
		for i := range folded {
			folded[i].Value = foldLong(folded[i].Value)
		}
		return folded
	case frames.Array:
		folded := slices.Clone(v)
		for i := range folded {
			folded[i] = foldLong(folded[i])
		}
		return folded
	}
	return v
}

// bindingLabel returns a string that tells apart the bindings of one destination by key and arguments. It is empty for
// the most common binding of all, no key and no arguments.
func bindingLabel(key string, args frames.Table) string {
	id := argumentsID(args)
	if key == "" && id == "" {
		return ""
	}
	return strconv.Itoa(len(key)) + ":" + key + id
}
