// Package config finds the value of every parameter.
//
// A value comes from the first of these places that has one:
//
//	the environment
//	the user's file      $SCR_CONF_FILE, else <prefix>/.scrconf
//	the program          SCR_Config, before SCR_Init
//	the system's file    etc/scr.conf of the installation, else /etc/scr.conf
//	the default          in the table Parameters, and nowhere else
//
// An empty value counts as none, also if expansion made it empty. In all these places $NAME
// and ${NAME} are replaced by variables of the environment, or by nothing if they are unset;
// but a setting of a file in which a variable is unset is left out. Two names do not
// come from the environment: $PWD is the working directory of the process, and
// $SCR_PREFIX is the value of that parameter. The prefix decides where the user's file
// is, so that file cannot set it, unless $SCR_CONF_FILE names the file without the prefix.
//
// Rank 0 reads the files and decides on parameters of scope Job. Each rank finds
// parameters of scope Rank by the same rule with its own environment. Rank 0 also decides
// on items (GROUPS, STORE, CKPT), and all items of one kind come from one place: CKPT lines in
// the user's file replace those in the system's file, and do not mix with them. Only those
// of a program may stand beside the system's: see Settings.Config.
package config

//go:generate go run ./generate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goscr/goscr/hash"
)

// Config is the values of all parameters on one rank. It does not change, and
// may be used by any number of goroutines.
type Config struct {
	Values
	Lines
	// Ignored says which files do not count, because another user has written them or may have.
	Ignored []string

	values map[string]value      // every parameter, and unknown names that were set
	items  *hash.Hash            // kind -> id -> field -> value; a number has no suffix, and a Bool is 0 or 1
	asked  map[string][]expanded // what Query answers, see answers
	own    *resolver             // this rank's, without layers
}

// Source says where the value of a field of Values came from. field is a pointer to it, as
// in c.Source(&c.JobID).
func (c *Config) Source(field any) Source {
	values := reflect.ValueOf(&c.Values).Elem()
	for i := range values.NumField() {
		if values.Field(i).Addr().Interface() == field {
			return c.values[parameterOf(values.Type().Field(i))].source
		}
	}
	return Source{}
}

// Set is a parameter of which the value is not the default.
type Set struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Changed returns the parameters that somebody has set, sorted by name. A name that goscr does not know sets nothing: the warnings of
// Load have it.
func (c *Config) Changed() (list []Set) {
	for name, v := range c.values {
		if v.source.Level != Default && find(Parameters, name) != nil {
			list = append(list, Set{name, v.text, v.source.String()})
		}
	}
	slices.SortFunc(list, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// RunLimit returns the maximum number of runs, and the parameter that sets it; -1: no limit.
func (c *Config) RunLimit() (runs int, from string) {
	if c.values["SCR_RUNS"].source.Level == Default && c.Retries >= 0 {
		return c.Retries + 1, fmt.Sprintf("SCR_RETRIES=%d", c.Retries)
	}
	return c.Runs, fmt.Sprintf("SCR_RUNS=%d", c.Runs)
}

// Query answers the queries that SCR_Config accepts after SCR_Init: "NAME" for a
// parameter or an item, "NAME=VALUE CHILD" for a child of an item. The answer is what was set
// when SCR_Init ran, not a default; ok is false if there is none. Where there are several
// values, the error is ErrAmbiguous. A string that would change a setting is an error.
func (c *Config) Query(s string) (result string, ok bool, err error) {
	pairs, err := parseConfig(s)
	if err != nil || len(pairs) == 0 {
		return "", false, err
	}
	q, isQuery, err := parseQuery(pairs)
	switch {
	case err != nil:
		return "", false, err
	case !isQuery:
		return "", false, fmt.Errorf("%q would change a setting, which must be done before SCR_Init", s)
	}
	return q.answer(c.inForce(q.name))
}

// inForce returns the items with a key that were in force when the configuration was loaded.
// Names that nobody knows are looked up in the environment.
func (c *Config) inForce(key string) []expanded {
	if !isKnown(key) || isOfRank(key) {
		if text, _ := c.own.environ(key); text != "" && findKind(key) == nil {
			return []expanded{{Raw: text, Text: c.own.expand(text, Environment)}}
		}
	}
	items := slices.Clone(c.asked[key])
	if isOfRank(key) {
		for i := range items { // rank 0 has left them as they were set
			items[i].Text = c.own.expand(items[i].Text, System)
		}
	}
	return items
}
