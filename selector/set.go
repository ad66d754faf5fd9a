package selector

import "slices"

// set is a set of strings.
type set struct {
	list   []string
	hashed map[string]struct{} // the same strings, if they are many; else nil
}

// scanned is the number of strings up to which a scan is faster than hashing.
const scanned = 8

func newSet(list []string) set {
	s := set{list: list}
	if len(list) > scanned {
		s.hashed = make(map[string]struct{}, len(list))
		for _, text := range list {
			s.hashed[text] = struct{}{}
		}
	}
	return s
}

func (s *set) has(text string) bool {
	if s.hashed != nil {
		_, ok := s.hashed[text]
		return ok
	}
	return slices.Contains(s.list, text)
}
