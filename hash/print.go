package hash

import (
	"bufio"
	"io"
	"strings"
)

// Print writes h as a tree, a key a line, each level indented by two more
// spaces than the one above; the first is indented by indent spaces.
func (h *Hash) Print(w io.Writer, indent int) error {
	return h.print(w, indent, false)
}

// PrintKV writes h as Print does, but a key with a single value as KEY = VALUE.
func (h *Hash) PrintKV(w io.Writer, indent int) error {
	return h.print(w, indent, true)
}

func (h *Hash) print(w io.Writer, indent int, kv bool) error {
	out := bufio.NewWriter(w)
	h.lines(out, indent, kv)
	return out.Flush()
}

func (h *Hash) lines(out *bufio.Writer, indent int, kv bool) {
	for key, child := range h.All() {
		out.WriteString(strings.Repeat(" ", indent))
		out.WriteString(key)
		if value, ok := h.Value(key); ok && kv && child.Get(value).Size() == 0 {
			out.WriteString(" = " + value + "\n")
			continue
		}
		out.WriteByte('\n')
		child.lines(out, indent+2, kv)
	}
}
