package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// method is one line of methods.txt.
type method struct {
	Class, Method uint16
	Name          string // as in the specification: "basic.get-ok"
	Client        bool   // the client may send it
	Server        bool   // the server may send it
	Content       bool   // a content header follows
	Fields        []field
}

// field is one argument of a method.
type field struct {
	Name string // as in the specification: "routing-key"
	Type string // a key of fieldKinds, or "bit"
}

// parse reads the whole definition. Errors name the line.
func parse(r io.Reader) ([]method, error) {
	var methods []method
	seen := map[string]bool{}
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		text, _, _ := strings.Cut(in.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		m, err := parseMethod(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if seen[m.Name] || seen[words[0]] {
			return nil, fmt.Errorf("line %d: %s or its id is defined twice", line, m.Name)
		}
		seen[m.Name], seen[words[0]] = true, true
		methods = append(methods, m)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	return methods, nil
}

func parseMethod(words []string) (method, error) {
	var m method
	if len(words) < 3 {
		return m, fmt.Errorf("want an id, a name and a direction, have %q", words)
	}
	class, meth, _ := strings.Cut(words[0], ".")
	c, err := strconv.ParseUint(class, 10, 16)
	if err != nil {
		return m, fmt.Errorf("parse the class id: %w", err)
	}
	n, err := strconv.ParseUint(meth, 10, 16)
	if err != nil {
		return m, fmt.Errorf("parse the method id: %w", err)
	}
	m.Class, m.Method, m.Name = uint16(c), uint16(n), words[1]
	if strings.Count(m.Name, ".") != 1 {
		return m, fmt.Errorf("name %q is not class.method", m.Name)
	}
	who := words[2]
	who, m.Content = strings.CutSuffix(who, "*")
	switch who {
	case "c":
		m.Client = true
	case "s":
		m.Server = true
	case "cs":
		m.Client, m.Server = true, true
	default:
		return m, fmt.Errorf("direction %q of %s is not c, s or cs", who, m.Name)
	}
	for _, w := range words[3:] {
		f, err := parseField(w)
		if err != nil {
			return m, fmt.Errorf("%s: %w", m.Name, err)
		}
		m.Fields = append(m.Fields, f)
	}
	return m, nil
}

func parseField(word string) (field, error) {
	if name, ok := strings.CutSuffix(word, "?"); ok {
		return field{Name: name, Type: "bit"}, nil
	}
	name, typ, _ := strings.Cut(word, ":")
	if _, ok := fieldKinds[typ]; !ok {
		return field{}, fmt.Errorf("field %q has no known type", word)
	}
	return field{Name: name, Type: typ}, nil
}
