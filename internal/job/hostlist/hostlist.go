// Package hostlist reads and writes lists of hosts in the short form of resource
// managers,
//
//	atlas[3,5-7,9-11],login1
//
// and combines them as sets. A number keeps its leading zeros: n[08-11] is n08,
// n09, n10, n11, and n[8-11] is n8 and so on. A name may have several brackets:
// rack[1-2]node[0-3] is eight hosts.
package hostlist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Most bounds the hosts of a list, so that a typing error such as n[1-99999999999]
// is an error and does not exhaust memory.
const Most = 1 << 20

// maxDigits is the number of digits that fit an int64. Longer numbers are text.
const maxDigits = 18

// Expand returns the hosts of a list in the order of the list.
// Hosts are separated by commas or white space; one that is named twice is
// there twice.
func Expand(list string) ([]string, error) {
	var hosts []string
	items, err := split(list)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		names, err := expandItem(item)
		if err == nil && len(hosts)+len(names) > Most {
			err = errTooMany
		}
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", shorten(list), err)
		}
		hosts = append(hosts, names...)
	}
	return hosts, nil
}

var errTooMany = fmt.Errorf("more than %d hosts", Most)

// shorten keeps an error message readable.
func shorten(text string) string {
	if len(text) > 80 {
		return text[:80] + "..."
	}
	return text
}

// split cuts a list at its separators, but not in brackets.
func split(list string) ([]string, error) {
	var items []string
	start, depth := 0, 0
	for i := 0; i <= len(list); i++ {
		end := i == len(list)
		switch {
		case !end && list[i] == '[':
			depth++
		case !end && list[i] == ']':
			depth--
		case end || depth == 0 && strings.IndexByte(", \t\n\r", list[i]) >= 0:
			if start < i {
				items = append(items, list[start:i])
			}
			start = i + 1
		}
		if depth < 0 || depth > 1 || end && depth > 0 {
			return nil, fmt.Errorf("host list %q: brackets do not match", shorten(list))
		}
	}
	return items, nil
}

// expandItem returns the hosts of one name with any number of brackets.
func expandItem(item string) ([]string, error) {
	names := []string{""}
	for item != "" {
		text, rest, bracket := strings.Cut(item, "[")
		if err := checkText(text); err != nil {
			return nil, err
		}
		choices := []string{text}
		item = ""
		if bracket {
			inside, after, _ := strings.Cut(rest, "]")
			numbers, err := expandRanges(inside)
			if err != nil {
				return nil, err
			}
			choices = choices[:0]
			for _, n := range numbers {
				choices = append(choices, text+n)
			}
			item = after
		}
		if len(names)*len(choices) > Most {
			return nil, errTooMany
		}
		longer := make([]string, 0, len(names)*len(choices))
		for _, name := range names {
			for _, choice := range choices {
				longer = append(longer, name+choice)
			}
		}
		names = longer
	}
	for _, name := range names[:1] {
		// ssh and srun would read such a name as an option.
		if strings.HasPrefix(name, "-") {
			return nil, fmt.Errorf("%q: a host name cannot begin with '-'", shorten(name))
		}
	}
	return names, nil
}

// checkText rejects characters that no host name has, since names are put on command
// lines.
func checkText(text string) error {
	for i := range len(text) {
		c := text[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || strings.IndexByte("-._", c) >= 0) {
			return fmt.Errorf("%q cannot be part of a host name", c)
		}
	}
	return nil
}

// expandRanges returns the numbers of 3,05-07 with the zeros they have.
func expandRanges(text string) ([]string, error) {
	var numbers []string
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		first, err := number(low)
		if err != nil {
			return nil, err
		}
		last, err := number(high)
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("range %s goes backwards", part)
		}
		if last-first >= Most || len(numbers) > Most {
			return nil, errTooMany
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, pad(n, len(low)))
		}
	}
	return numbers, nil
}

func number(text string) (int64, error) {
	if text == "" || len(text) > maxDigits || strings.TrimLeft(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q in brackets is not a number", shorten(text))
	}
	return strconv.ParseInt(text, 10, 64)
}

// pad writes a number with leading zeros.
func pad(n int64, width int) string {
	text := strconv.FormatInt(n, 10)
	return strings.Repeat("0", max(width-len(text), 0)) + text
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Parse is Expand for a set: each host once, in the order of their names and
// numbers.
func Parse(list string) ([]string, error) {
	hosts, err := Expand(list)
	if err != nil {
		return nil, err
	}
	return sorted(hosts), nil
}

// Compress writes hosts as a short list, each of them once, in the order of
// their names and numbers. Expand gives the same hosts again.
func Compress(hosts []string) string {
	var patterns []pattern
	most := 0
	for _, host := range sorted(hosts) {
		p := tokenize(host)
		patterns = append(patterns, p)
		most = max(most, len(p))
	}
	// Numbers count up fastest at the end of a name, so begin there.
	for at := most - 1; at >= 0; at-- {
		patterns = fold(patterns, at)
	}
	words := make([]string, len(patterns))
	for i, p := range patterns {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

// pattern is a host name cut into text and numbers, in turn. Numbers of several
// hosts are in brackets.
type pattern []string

func (p pattern) String() string { return strings.Join(p, "") }

func tokenize(host string) pattern {
	var p pattern
	for host != "" {
		i := 1
		for i < len(host) && isDigit(host[i]) == isDigit(host[0]) {
			i++
		}
		p = append(p, host[:i])
		host = host[i:]
	}
	return p
}

func isNumber(token string) bool {
	return token != "" && isDigit(token[0]) && len(token) <= maxDigits
}

// fold merges patterns that differ only in the number at one place, in the order of
// their first.
func fold(patterns []pattern, at int) []pattern {
	var folded []pattern
	numbers := [][]string{}
	index := map[string]int{}
	for _, p := range patterns {
		i := len(folded)
		if at < len(p) && isNumber(p[at]) {
			key := strings.Join(p[:at], "") + "\x00" + strings.Join(p[at+1:], "")
			if j, ok := index[key]; ok {
				numbers[j] = append(numbers[j], p[at])
				continue
			}
			index[key] = i
			numbers = append(numbers, []string{p[at]})
		} else {
			numbers = append(numbers, nil)
		}
		folded = append(folded, p)
	}
	for i, p := range folded {
		if len(numbers[i]) > 1 {
			p = slices.Clone(p)
			p[at] = "[" + compressNumbers(numbers[i]) + "]"
			folded[i] = p
		}
	}
	return folded
}

// compressNumbers writes different numbers as 3,05-07.
func compressNumbers(numbers []string) string {
	slices.SortFunc(numbers, compareNumbers)
	type run struct {
		first, last string
		next        int64
	}
	var runs []*run
	open := map[int]*run{} // by the width of their numbers
	for _, text := range numbers {
		n, _ := strconv.ParseInt(text, 10, 64)
		var to *run
		for width := len(text); width > 0; width-- {
			if r := open[width]; r != nil && r.next == n && pad(n, width) == text {
				to = r
				break
			}
		}
		if to == nil {
			to = &run{first: text}
			runs = append(runs, to)
			open[len(text)] = to
		}
		to.last, to.next = text, n+1
	}
	words := make([]string, len(runs))
	for i, r := range runs {
		words[i] = r.first
		if r.last != r.first {
			words[i] += "-" + r.last
		}
	}
	return strings.Join(words, ",")
}

// sorted returns each host once, node9 before node10.
func sorted(hosts []string) []string {
	list := slices.Clone(hosts)
	slices.SortFunc(list, compare)
	return slices.Compact(list)
}

// compare orders names as people do.
func compare(a, b string) int {
	p, q := tokenize(a), tokenize(b)
	for i := 0; i < len(p) && i < len(q); i++ {
		c := cmp.Compare(p[i], q[i])
		if isNumber(p[i]) && isNumber(q[i]) {
			c = compareNumbers(p[i], q[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(p), len(q))
}

func compareNumbers(a, b string) int {
	n, _ := strconv.ParseInt(a, 10, 64)
	m, _ := strconv.ParseInt(b, 10, 64)
	return cmp.Or(cmp.Compare(n, m), cmp.Compare(len(a), len(b)))
}

// ErrNoSuchHost is the error of Nth for a place past the end.
var ErrNoSuchHost = errors.New("the list is not that long")

// Nth returns the n-th host of a list, counted from 1, or from its end if n is
// negative.
func Nth(hosts []string, n int) (string, error) {
	if n < 0 {
		n += len(hosts) + 1
	}
	if n < 1 || n > len(hosts) {
		return "", ErrNoSuchHost
	}
	return hosts[n-1], nil
}

func set(hosts []string) map[string]bool {
	m := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		m[h] = true
	}
	return m
}

func filter(hosts []string, keep func(string) bool) []string {
	var list []string
	for _, h := range hosts {
		if keep(h) {
			list = append(list, h)
		}
	}
	return list
}

// Minus returns the hosts of a that are not in b, in a's order.
func Minus(a, b []string) []string {
	not := set(b)
	return filter(a, func(h string) bool { return !not[h] })
}

// Intersection returns the hosts of a that are in b too, in a's order.
func Intersection(a, b []string) []string {
	in := set(b)
	return filter(a, func(h string) bool { return in[h] })
}

// Union returns the hosts that are in any of the lists, each once, in the order
// in which they first appear.
func Union(lists ...[]string) []string {
	seen := map[string]bool{}
	return filter(slices.Concat(lists...), func(h string) bool {
		first := !seen[h]
		seen[h] = true
		return first
	})
}
