package config

import (
	"errors"
	"strings"
)

// Early versions wrote a value that has a blank, a quote, a backslash or a # into app.conf in
// quotes, in which \" is a quote and \\ a backslash. Their names had only letters, digits, '_',
// '-' and '.'.

// isQuoted reports whether a line of app.conf is in the form of early versions.
func isQuoted(line string) bool { return strings.Contains(line, `="`) }

// parseQuoted parses such a line.
func parseQuoted(s string) (pairs []pair, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, blanks) {
		key, rest, found := strings.Cut(s, "=")
		if !found || key == "" || strings.ContainsAny(key, blanks) {
			return nil, errors.New("not NAME=VALUE")
		}
		p := pair{key: key}
		if !strings.HasPrefix(rest, `"`) {
			p.value, s, _ = strings.Cut(rest, " ")
		} else if p.value, s, found = unquote(rest[1:]); !found {
			return nil, errors.New("quote that is not closed on its line")
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// unquote reads up to a quote, and returns the text behind it.
func unquote(s string) (text, rest string, closed bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
