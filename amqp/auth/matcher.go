package auth

// Matcher is a compiled pattern for names: the one of a policy, in the same language as those of permissions. Immutable;
// any goroutine.
type Matcher struct{ p pattern }

// CompileMatcher reads a pattern, which is not anchored: it matches a name that has a match anywhere. The error is a
// *PatternError.
func CompileMatcher(source string) (*Matcher, error) {
	if source == "" { // as a permission it stands for nobody, as a pattern it is found in every name
		return &Matcher{pattern{all: true}}, nil
	}
	p, err := compile(source)
	if err != nil {
		return nil, err
	}
	return &Matcher{p}, nil
}

// Match says whether the pattern has a match in the name.
func (m *Matcher) Match(name string) bool { return m.p.match(name) }
