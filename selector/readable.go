package selector

import "strings"

// readable puts into plain words what the CEL library says with its names of overloads, such as
// that there is no int == string, or with its tokens. It returns a text of another form as it is.
func readable(msg string) string {
	name, types, ok := strings.Cut(strings.TrimPrefix(msg, "found no matching overload for '"), "' applied to '")
	if !ok || !strings.HasPrefix(msg, "found") {
		if strings.HasPrefix(msg, "Syntax error: mismatched input '<EOF>'") {
			return "syntax error: the expression ends too early"
		}
		msg = strings.ReplaceAll(msg, "'<EOF>'", "<EOF>")
		msg, _, _ = strings.Cut(msg, " expecting {") // a list of all tokens
		msg = strings.ReplaceAll(msg, "<EOF>", "the end")
		if rest, ok := strings.CutPrefix(msg, "Syntax error: "); ok {
			return "syntax error: " + rest
		}
		return msg
	}
	types = strings.TrimSuffix(types, "'")
	receiver, operands, member := strings.Cut(types, ".(")
	if !member {
		operands = strings.TrimPrefix(types, "(")
	}
	operands = strings.TrimSuffix(operands, ")")
	if name == "@in" {
		name = "_in_"
	}
	if !strings.Contains(name, "_") {
		if member {
			name = receiver + "." + name
		}
		return "there is no " + name + "(" + operands + ")"
	}
	list := operandTypes(operands)
	if strings.Count(name, "_") != len(list) {
		return msg
	}
	text := "there is no "
	for i, part := range strings.Split(name, "_") {
		if part != "" && part != "[" && part != "]" && i > 0 {
			part = " " + part + " "
		}
		text += part
		if i < len(list) {
			text += list[i]
		}
	}
	return text
}

// operandTypes splits a list of types at its commas, not at those of map(string, string).
func operandTypes(text string) []string {
	var list []string
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, text[start:i])
				start = i + len(", ")
			}
		}
	}
	return append(list, text[start:])
}
