package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// warnings returns a warning for each setting that has no effect. file is the value of
// SCR_CONF_FILE.
func (r *resolver) warnings(file value) []string {
	var list []string
	if file.source.Level != Default {
		if _, err := os.Stat(file.text); missing(err) {
			list = append(list, fmt.Sprintf("SCR_CONF_FILE names %s, which does not exist", file.text))
		}
	}
	for _, l := range r.layers {
		for _, err := range l.ignored {
			list = append(list, err.Error())
		}
		list = append(list, l.notes...)
	}
	for _, name := range r.unknown() {
		for _, l := range r.layers {
			if s := l.last(name); s.text != "" {
				list = append(list, at(s.where, "unknown parameter %s%s", name, didYouMean(name, Parameters)))
				break
			}
		}
	}
	for _, l := range r.layers {
		list = append(list, l.misplaced()...)
	}
	for i := range ItemKinds {
		list = append(list, r.unknownFields(&ItemKinds[i])...)
	}
	return list
}

// otherVariables are variables that begin with SCR_ and are no parameters of the library. SCR_LIB
// tells scr.py where libscr.so is.
var otherVariables = []string{"SCR_LIB"}

// UnknownVariables warns about variables of this process, as Load does for a program. Read leaves them out: scr_run would say what the
// library says in each run.
func UnknownVariables() []string { return unknownVariables(new(Settings).names()) }

// unknownVariables warns about variables whose names begin with SCR_ and are no parameters.
func unknownVariables(names []string) []string {
	var list []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if strings.HasPrefix(name, "SCR_") && find(Parameters, name) == nil && !slices.Contains(otherVariables, name) {
			list = append(list, fmt.Sprintf("environment: unknown parameter %s%s", name, didYouMean(name, Parameters)))
		}
	}
	return list
}

// unknown returns the names that were set and are not in the table of parameters, each once.
func (r *resolver) unknown() []string {
	var names []string
	for _, l := range r.layers {
		for _, name := range l.order {
			if !isKnown(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// unknownFields warns about fields that items of a kind cannot have, once for each.
func (r *resolver) unknownFields(kind *ItemKind) []string {
	if kind.Fields == nil {
		return nil
	}
	seen := map[string]bool{}
	var list []string
	for _, l := range r.layers {
		for _, it := range l.items[kind.Name] {
			for _, name := range it.names() {
				if seen[name] || find(kind.Fields, name) != nil {
					continue
				}
				seen[name] = true
				list = append(list, at(it.child(name).where, "unknown field %s of %s%s",
					name, kind.Name, didYouMean(name, kind.Fields)))
			}
		}
	}
	return list
}

// misplaced warns about settings that follow a parameter on its line. In SCR they are its
// children, and set nothing.
func (l *layer) misplaced() []string {
	var list []string
	for _, key := range l.order {
		for _, it := range l.items[key] {
			for _, s := range it.children {
				if find(Parameters, key) != nil || findKind(key) == nil && isKnown(s.key) {
					list = append(list, at(s.where, "%s=%s follows %s=%s on its line, and has no effect there; put it on a line, or into a call of SCR_Config, of its own",
						s.key, s.text, key, it.text))
				}
			}
		}
	}
	return list
}

// didYouMean names the closest of the known names, "" if none is close.
func didYouMean(name string, known []Parameter) string {
	best, least := "", len(name)/3+1
	for _, p := range known {
		for _, candidate := range []string{p.Name, strings.TrimPrefix(p.Name, "SCR_")} {
			if d := distance(strings.ToUpper(name), candidate); d < least {
				best, least = p.Name, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the least number of letters to insert, delete, replace or swap
// with their neighbour that makes a into b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
