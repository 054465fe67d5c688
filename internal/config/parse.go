package config

import (
	"fmt"
	"strings"
)

// The syntax of configuration files is that of SCR 3.1:
//
//	# a comment
//	SCR_FLUSH = 10
//	SCR_JOB_NAME=heat\ 2-d       # a backslash takes a blank its meaning
//	STORE=/dev/shm GROUP=NODE COUNT=1
//	CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16
//
// The first setting of a line is an item, and the others belong to it. A comment starts at
// a '#' where a name could start, so that in A=/a#b and in A= # it is part of a value. Blanks
// are space and tab, also around '='. Names are read in upper case, values as they are;
// quotes are characters. \a \b \f \n \r \t \v are those of C, and a backslash before any other
// character is that character.
//
// In the strings of SCR_Config a blank is a space, there are neither comments nor
// backslashes, and names keep their case.

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

// parse parses the text of a configuration file. Errors begin with name:line. If upper is
// true, names are read in upper case.
func parse(name, text string, upper bool) ([]line, error) {
	return parseBy(name, text, func(s string) ([]pair, error) {
		pairs, err := parseLine(strings.TrimSuffix(s, "\r"))
		for i := range pairs {
			if upper {
				pairs[i].key = strings.ToUpper(pairs[i].key)
			}
		}
		return pairs, err
	})
}

// parseOwn parses app.conf.
func parseOwn(name, text string) ([]line, error) { return parseBy(name, text, parseLine) }

func parseBy(name, text string, parse func(string) ([]pair, error)) ([]line, error) {
	var lines []line
	for i, s := range strings.Split(text, "\n") {
		pairs, err := parse(s)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if len(pairs) > 0 {
			lines = append(lines, line{i + 1, pairs})
		}
	}
	return lines, nil
}

const blanks = " \t"

// parseLine parses a line of a file.
func parseLine(s string) ([]pair, error) {
	if strings.Contains(s, "\x00") {
		return nil, fmt.Errorf("a NUL in a setting")
	}
	var pairs []pair
	for {
		s = strings.TrimLeft(s, blanks)
		if s == "" || s[0] == '#' {
			return pairs, nil
		}
		var p pair
		p.key, s = word(s, "="+blanks)
		s = strings.TrimLeft(s, blanks)
		if p.key == "" {
			return nil, fmt.Errorf("no name before %q: a setting is NAME=VALUE", s)
		}
		if !strings.HasPrefix(s, "=") {
			return nil, fmt.Errorf(`%q is not NAME=VALUE: write a blank in a value as "\ ", and a # in front of a comment`, p.key)
		}
		value := strings.TrimLeft(s[1:], blanks)
		apart := len(value) < len(s)-1
		before := value
		p.value, s = word(value, blanks)
		// "A= B=1" may be meant as an A that is empty.
		if apart && strings.Contains(before[:len(before)-len(s)], "=") {
			return nil, fmt.Errorf("%s has no value before %q: give it one, or delete it from the line", p.key, before)
		}
		pairs = append(pairs, p)
	}
}

// escapes are the characters that stand after a backslash for others.
const escapes, escaped = `abfnrtv`, "\a\b\f\n\r\t\v"

// word reads s up to one of the characters in end, and returns the text after it.
func word(s, end string) (text, rest string) {
	var b strings.Builder
	i := 0
	for ; i < len(s) && strings.IndexByte(end, s[i]) < 0; i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			if c = s[i]; strings.IndexByte(escapes, c) >= 0 {
				c = escaped[strings.IndexByte(escapes, c)]
			}
		}
		b.WriteByte(c)
	}
	return b.String(), s[i:]
}

// parseConfig parses a string for SCR_Config.
func parseConfig(s string) ([]pair, error) {
	if strings.Contains(s, "\x00") {
		return nil, fmt.Errorf("a NUL in a setting")
	}
	var pairs []pair
	for {
		if s = strings.TrimLeft(s, " "); s == "" {
			return pairs, nil
		}
		var p pair
		end := strings.IndexAny(s, "= ")
		if end < 0 {
			end = len(s)
		}
		p.key, s = s[:end], strings.TrimLeft(s[end:], " ")
		if p.key == "" {
			return nil, fmt.Errorf("no name before %q: a setting is NAME=VALUE", s)
		}
		if p.bare = !strings.HasPrefix(s, "="); !p.bare {
			p.value, s, _ = strings.Cut(strings.TrimLeft(s[1:], " "), " ")
		}
		pairs = append(pairs, p)
	}
}

// format returns a line of a file that parseLine parses to these pairs.
func format(pairs []pair) string {
	var words []string
	for _, p := range pairs {
		words = append(words, escape(p.key, true)+"="+escape(p.value, false))
	}
	return strings.Join(words, " ")
}

func escape(s string, isKey bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if at := strings.IndexByte(escaped, c); at >= 0 {
			b.WriteByte('\\')
			c = escapes[at]
		} else if c == '\\' || c == ' ' || isKey && (c == '=' || c == '#' && i == 0) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// expand replaces $NAME and ${NAME} by what lookup returns, and by nothing where that finds
// no variable. Names have letters, digits and '_'; a '$' that none follows stays. missing is
// the first variable that was not found, "" if all were.
func expand(s string, lookup func(string) (string, bool)) (text, missing string) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), missing
		}
		name, rest := after[:nameLength(after)], after[nameLength(after):]
		if inside, behind, closed := strings.Cut(strings.TrimPrefix(after, "{"), "}"); closed && after[0] == '{' &&
			nameLength(inside) == len(inside) {
			name, rest = inside, behind
		}
		if s = rest; name == "" {
			b.WriteByte('$')
			s = after
			continue
		}
		value, ok := lookup(name)
		if !ok && missing == "" {
			missing = name
		}
		b.WriteString(value)
	}
}

// nameLength is the length of the name of a variable at the start of s.
func nameLength(s string) int {
	n := 0
	for n < len(s) && isNameByte(s[n]) {
		n++
	}
	return n
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
