// Package config finds the value of every parameter.
//
// A value comes from the first of these places that has one:
//
//	the environment
//	the user's file      $SCR_CONF_FILE, else <prefix>/.scrconf
//	the program          SCR_Config, before SCR_Init
//	the system's file    /etc/scr.conf, or what the installation chose
//	the default          in the table Parameters, and nowhere else
//
// An empty value counts as none, also if expansion made it empty. In files, in the
// program's settings and in defaults, $VAR and ${VAR} are replaced by variables of the
// environment, or by nothing if they are unset; $$ is a dollar sign. Two names do not
// come from the environment: $PWD is the working directory of the process, and
// $SCR_PREFIX is the value of that parameter. The prefix decides where the user's file
// is, so that file cannot set it.
//
// Rank 0 reads the files and decides on parameters of scope Job. Each rank finds
// parameters of scope Rank by the same rule with its own environment. Rank 0 also decides
// on items (GROUPS, STORE, CKPT), and all items of one kind come from one place. As in
// SCR, CKPT lines in the user's file replace those in the system's file, and do not mix
// with them.
package config

//go:generate go run ./generate

import (
	"fmt"
	"strings"

	"github.com/goscr/goscr/hash"
)

// Config is the values of all parameters on one rank. It does not change, and
// may be used by any number of goroutines.
type Config struct {
	Values
	Lines

	values map[string]value // every parameter, and unknown names that were set
	items  *hash.Hash       // kind -> id -> field -> value; a number has no suffix, and a Bool is 0 or 1
}

// Source says where the value of a field of Values came from. field is a pointer to it, as
// in c.Source(&c.JobID).
func (c *Config) Source(field any) Source {
	for name, f := range fields(&c.Values) {
		if f == field {
			return c.values[name].source
		}
	}
	return Source{}
}

// Query answers the queries that SCR_Config accepts after SCR_Init: "NAME" for a
// parameter, "KIND=id FIELD" for a field of an item, "KIND" for the ids of all items. ok
// is false if there is no value. A string that would change a setting is an error.
func (c *Config) Query(s string) (result string, ok bool, err error) {
	pairs, err := parseLine(s)
	if err != nil {
		return "", false, err
	}
	q, isQuery, err := parseQuery(pairs)
	switch {
	case err != nil:
		return "", false, err
	case !isQuery:
		return "", false, fmt.Errorf("%q would change a setting, which must be done before SCR_Init", s)
	case q.field != "":
		result, ok = c.queryItem(q)
	case findKind(q.name) != nil:
		result = strings.Join(c.items.Get(q.name).Keys(), " ")
	default:
		result = c.values[q.name].text
	}
	return result, ok || result != "", nil
}

func (c *Config) queryItem(q query) (string, bool) {
	kind := findKind(q.name)
	v, err := kind.read(q.id)
	if err != nil {
		return "", false
	}
	return c.items.Get(kind.Name, kind.plain(v)).Value(q.field)
}
