// Package kind recognizes messages that differ only in ranks, nodes or numbers.
package kind

import (
	"regexp"
	"sync"
)

var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\pL\pN]*\pN[\pL\pN]*`) })

// Of returns a message with every word that has a digit in it replaced, so that
// messages which differ in ranks, nodes, datasets or checksums become equal.
func Of(text string) string { return numbered().ReplaceAllLiteralString(text, "#") }
