package rollout

import "testing"

// TestTakeKey: matchers are the host's, and may say what they missed in words of their own, which
// are not judged.
func TestTakeKey(t *testing.T) {
	for _, row := range []struct{ text, variable, key, why string }{
		{"resource.metadata['zone']", "resource.metadata", "zone", "as package selector says it"},
		{`resource.metadata["zone"]`, "resource.metadata", "zone", "the other quotes"},
		{"resource.metadata['a[0]']", "resource.metadata", "a[0]", "brackets inside"},
		{"resource.metadata['']", "resource.metadata", "", "an empty key is a key"},
		{"resource.metadata['it\\'s']", "", "", "what is escaped is not read"},
		{"resource.metadata['zone\"]", "", "", "it does not end as it began"},
		{"resource.metadata[zone]", "", "", "no quotes"},
		{"resource.metadata[zzz]", "", "", "no quotes, although it ends as it began"},
		{"resource.metadata[']", "", "", "one quote is not two"},
		{"resource.metadata[", "", "", "nothing behind the bracket"},
		{"resource.metadata['zone'", "", "", "no end"},
		{"resource.metadata.zone", "", "", "no brackets"},
		{"", "", "", "nothing"},
	} {
		variable, key, ok := takeKey(row.text)
		if ok != (row.variable != "") || ok && (variable != row.variable || key != row.key) {
			t.Errorf("%s: %q, %q, %v: %s", row.text, variable, key, ok, row.why)
		}
	}
}
