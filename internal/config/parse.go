package config

import (
	"fmt"
	"strings"
)

// The syntax of configuration files, and of the strings given to SCR_Config:
//
//	# a comment
//	SCR_FLUSH=10 SCR_FETCH=1     # one or several settings a line
//	SCR_JOB_NAME="heat 2-d"      # quotes around blanks
//	STORE=/dev/shm GROUP=NODE COUNT=1
//	CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16
//
// A comment starts at a '#' that starts a word, so that /a#b is a path. There must be no
// blanks around '='. Keys consist of letters, digits, '_', '-' and '.'. In quotes, \" is a
// quote and \\ a backslash; any other backslash stands for itself. A value cannot go on in
// the next line.

// pair is KEY=VALUE, or a KEY alone in a query.
type pair struct {
	key, value string
	bare       bool // without '='
}

// line holds the settings of one line of a file.
type line struct {
	number int // from 1
	pairs  []pair
}

// parse parses the text of a configuration file. Errors begin with name:line.
func parse(name, text string) ([]line, error) {
	var lines []line
	for i, s := range strings.Split(text, "\n") {
		pairs, err := parseLine(s)
		if err == nil {
			err = noBare(pairs)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if len(pairs) > 0 {
			lines = append(lines, line{i + 1, pairs})
		}
	}
	return lines, nil
}

func noBare(pairs []pair) error {
	for _, p := range pairs {
		if p.bare {
			return fmt.Errorf("%q is not KEY=VALUE (no blanks around '='; a value with blanks needs double quotes)", p.key)
		}
	}
	return nil
}

const blanks = " \t\r\v\f"

func parseLine(s string) ([]pair, error) {
	if i := strings.IndexAny(s, "\n\x00"); i >= 0 {
		return nil, fmt.Errorf("%q in a setting", s[i])
	}
	var pairs []pair
	for {
		s = strings.TrimLeft(s, blanks)
		if s == "" || s[0] == '#' {
			return pairs, nil
		}
		var p pair
		end := strings.IndexAny(s, "="+blanks)
		if end < 0 {
			end = len(s)
		}
		p.key, s = s[:end], s[end:]
		if p.key == "" {
			return nil, fmt.Errorf("no name before %q (a setting is KEY=VALUE, no blanks around '=')", s)
		}
		if !isKey(p.key) {
			return nil, fmt.Errorf("%q is not the name of a setting", p.key)
		}
		if p.bare = !strings.HasPrefix(s, "="); !p.bare {
			var err error
			if p.value, s, err = parseValue(s[1:]); err != nil {
				return nil, fmt.Errorf("%s: %w", p.key, err)
			}
		}
		pairs = append(pairs, p)
	}
}

// parseValue parses the value at the start of s and returns the text after it.
func parseValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, blanks)
		if end < 0 {
			end = len(s)
		}
		// A user who writes a"b c" most likely expects the shell's quoting, which this is not.
		if strings.Contains(s[:end], `"`) {
			return "", "", fmt.Errorf(`quote inside a value: put the quotes around all of it, and \" for a quote in it`)
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			rest = s[i+1:]
			if rest != "" && !strings.Contains(blanks+"#", rest[:1]) {
				return "", "", fmt.Errorf("%q after the closing quote", rest)
			}
			return b.String(), rest, nil
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", fmt.Errorf("quote that is not closed on its line")
}

func isKey(s string) bool {
	for _, c := range []byte(s) {
		if !isNameByte(c) && c != '-' && c != '.' {
			return false
		}
	}
	return s != ""
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// format returns a line that parseLine parses to these pairs.
func format(pairs []pair) string {
	var words []string
	for _, p := range pairs {
		switch {
		case p.bare:
			words = append(words, p.key)
		case strings.ContainsAny(p.value, blanks+`"#\`):
			quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p.value)
			words = append(words, p.key+`="`+quoted+`"`)
		default:
			words = append(words, p.key+"="+p.value)
		}
	}
	return strings.Join(words, " ")
}

// expand replaces $VAR and ${VAR} by the result of lookup, which may be empty. "$$" is one
// '$'; a '$' that no name follows stands for itself.
func expand(s string, lookup func(string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		var name string
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			s = after[1:]
			continue
		case strings.HasPrefix(after, "{"):
			name, s, found = strings.Cut(after[1:], "}")
			if n := nameLength(name); !found || n == 0 || n < len(name) {
				return "", fmt.Errorf("${ without a name and a } after it (write $$ for a '$')")
			}
		default:
			n := nameLength(after)
			name, s = after[:n], after[n:]
			if n == 0 {
				b.WriteByte('$')
				continue
			}
		}
		text, err := lookup(name)
		if err != nil {
			return "", fmt.Errorf("$%s: %w", name, err)
		}
		b.WriteString(text)
	}
}

// nameLength is the length of the name of a variable at the start of s.
func nameLength(s string) int {
	n := 0
	for n < len(s) && isNameByte(s[n]) && !(n == 0 && '0' <= s[0] && s[0] <= '9') {
		n++
	}
	return n
}
