package management

import (
	"net/http"
	"net/url"
	"strings"
)

// router finds the resource of a path. net/http's own mux refuses a pair like
// connections/username/{user} and connections/{name}/channels; here the first
// that fits is it, so paths with fewer names stand before others.
type router struct {
	bySize map[int][]*resource // by number of segments
}

// add adds a resource.
func (r *router) add(s *resource) {
	s.segments = strings.Split(strings.TrimPrefix(s.route.path, "/"), "/")
	if r.bySize == nil {
		r.bySize = map[int][]*resource{}
	}
	n := len(s.segments)
	r.bySize[n] = append(r.bySize[n], s)
}

// find gives the resource and puts the path's names into the request. A name
// may hold an escaped slash. nil: there is none.
func (r *router) find(q *http.Request) *resource {
	parts := strings.Split(strings.TrimPrefix(q.URL.EscapedPath(), "/"), "/")
	if n := len(parts); n > 0 && parts[n-1] == "" {
		parts = parts[:n-1]
	}
	for i, p := range parts {
		unescaped, err := url.PathUnescape(p)
		if err != nil {
			return nil
		}
		parts[i] = unescaped
	}
	for _, s := range r.bySize[len(parts)] {
		if s.fits(parts) {
			for i, pattern := range s.segments {
				if name, ok := variable(pattern); ok {
					q.SetPathValue(name, parts[i])
				}
			}
			return s
		}
	}
	return nil
}

func (s *resource) fits(parts []string) bool {
	for i, pattern := range s.segments {
		if _, ok := variable(pattern); !ok && pattern != parts[i] {
			return false
		}
	}
	return true
}

// variable is the name in {name}.
func variable(pattern string) (name string, ok bool) {
	if !strings.HasPrefix(pattern, "{") {
		return "", false
	}
	return pattern[1 : len(pattern)-1], true
}
