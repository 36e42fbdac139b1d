package auth

import (
	"fmt"
	"testing"
)

// checked returns a directory in which user u has patterns of the kind people write.
func checked(t testing.TB) *Directory {
	t.Helper()
	d := NewDirectory(nil)
	for _, err := range []error{
		d.PutUser(User{Name: "u", PasswordHash: vector}, nil),
		d.PutPermission(Permission{"u", "v", `^(orders|invoices)-.*`, `^(?!amq\.).*`, ".*"}, nil),
		d.PutTopicPermission(TopicPermission{"u", "v", "x", `^{username}\.`, ".*"}, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func BenchmarkCheck(b *testing.B) {
	d := checked(b)
	for _, p := range []Access{Configure, Write, Read} {
		b.Run(p.String(), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					d.Check("u", "v", Resource{Queue, "orders-1"}, p)
				}
			})
		})
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	d := checked(b)
	for b.Loop() {
		if err := d.Authenticate("u", "test12"); err != nil {
			b.Fatal(err)
		}
	}
}

// A change copies a part of the directory; this is what it costs among many users.
func BenchmarkPutUser(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := NewDirectory(nil)
			for i := range n {
				if err := d.PutUser(User{Name: fmt.Sprint("user", i), PasswordHash: vector}, nil); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := d.PutUser(User{Name: "user0", PasswordHash: vector}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
