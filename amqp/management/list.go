package management

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object of an answer.
type object = map[string]any

// The sizes of pages.
const (
	defaultPageSize = 100
	largestPageSize = 500
)

// list is the answer of a listing: filtered, sorted, cut to a page and to
// columns as the query asks.
func (q *request) list(all []object) (any, error) {
	query := q.URL.Query()
	page, size, paged, err := q.page()
	if err != nil {
		return nil, err
	}
	total := len(all)
	if paged && query.Get("name") != "" {
		pattern := query.Get("use_regex") == "true"
		if _, err := regexp.Compile(query.Get("name")); pattern && err != nil && !q.api.v4() {
			return nil, errPagination
		}
		all = filterByName(all, query.Get("name"), pattern)
	}
	if key := query.Get("sort"); key != "" {
		sortBy(all, key, query.Get("sort_reverse") == "true")
	}
	columns := query.Get("columns")
	if !paged {
		return choose(all, columns), nil
	}
	filtered := len(all)
	pages := (filtered + size - 1) / size
	if page > max(1, pages) {
		return nil, &failure{http.StatusBadRequest, "page_out_of_range", fmt.Sprintf("Page out of range, page: %d page size: %d, len: %d", page, size, filtered)}
	}
	from := (page - 1) * size
	items := all[from:min(filtered, from+size)]
	return object{
		"filtered_count": filtered, "item_count": len(items), "items": choose(items, columns), "page": page,
		"page_count": pages, "page_size": size, "total_count": total,
	}, nil
}

var errPagination = badRequest("Pagination parameters are invalid")

// page reads which page is asked for.
func (q *request) page() (page, size int, paged bool, err error) {
	query := q.URL.Query()
	size = defaultPageSize
	if !query.Has("page") {
		return 0, size, false, nil
	}
	page, pageErr := strconv.Atoi(query.Get("page"))
	sizeText := "undefined"
	var sizeErr error
	if query.Has("page_size") {
		sizeText = query.Get("page_size")
		size, sizeErr = strconv.Atoi(sizeText)
	}
	if pageErr != nil || sizeErr != nil {
		return 0, 0, false, errPagination
	}
	if page < 1 || size < 1 || size > largestPageSize {
		return 0, 0, false, &failure{
			http.StatusBadRequest, "invalid_pagination_parameters",
			fmt.Sprintf("Invalid pagination parameters: page number %s, page size %s", query.Get("page"), sizeText),
		}
	}
	return page, size, true, nil
}

func filterByName(all []object, name string, pattern bool) []object {
	match := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(name)) }
	if pattern {
		re, err := regexp.Compile("(?i)" + name)
		if err != nil {
			return nil // matches nothing, as in 4.3.6
		}
		match = re.MatchString
	}
	return slices.DeleteFunc(all, func(o object) bool {
		s, _ := o["name"].(string)
		return !match(s)
	})
}

// sortBy sorts by a column, which may be a path. Objects without it come
// first.
func sortBy(all []object, key string, reverse bool) {
	slices.SortStableFunc(all, func(a, b object) int {
		c := compare(lookup(a, key), lookup(b, key))
		if reverse {
			return -c
		}
		return c
	})
}

// lookup finds a value by its path.
func lookup(o object, path string) any {
	var v any = o
	for part := range strings.SplitSeq(path, ".") {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[part]
	}
	return v
}

// compare orders values of the kinds that answers have: absent ones, then
// false and true, numbers, strings.
func compare(a, b any) int {
	rank := func(v any) (int, float64, string) {
		switch v := v.(type) {
		case nil:
			return 0, 0, ""
		case bool:
			if v {
				return 1, 1, ""
			}
			return 1, 0, ""
		case string:
			return 3, 0, v
		}
		n, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
		return 2, n, ""
	}
	ra, na, sa := rank(a)
	rb, nb, sb := rank(b)
	return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(na, nb), cmp.Compare(sa, sb))
}

// choose cuts objects to the columns that are asked for.
func choose(all []object, columns string) any {
	if all == nil {
		all = []object{}
	}
	if columns == "" {
		return all
	}
	cut := make([]any, 0, len(all))
	for _, o := range all {
		cut = append(cut, chooseOne(o, columns))
	}
	return cut
}

// chooseOne cuts one object. RabbitMQ writes an object without any column as
// an empty array.
func chooseOne(o object, columns string) any {
	kept := object{}
	for path := range strings.SplitSeq(columns, ",") {
		copyPath(kept, o, strings.Split(path, "."))
	}
	if len(kept) == 0 {
		return []any{}
	}
	return kept
}

func copyPath(to, from object, path []string) {
	v, ok := from[path[0]]
	if !ok {
		return
	}
	inner, isObject := v.(object)
	if len(path) == 1 || !isObject {
		if len(path) == 1 {
			to[path[0]] = v
		}
		return
	}
	next, ok := to[path[0]].(object)
	if !ok {
		next = object{}
	}
	copyPath(next, inner, path[1:])
	if len(next) > 0 {
		to[path[0]] = next
	}
}

// one is the answer of a single object.
func (q *request) one(o object) (any, error) {
	if columns := q.URL.Query().Get("columns"); columns != "" {
		return chooseOne(o, columns), nil
	}
	return o, nil
}
