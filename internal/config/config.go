// Package config finds the value of every parameter.
//
// A value is taken from the first of these that has one:
//
//	the environment
//	the user's file      $SCR_CONF_FILE, else <prefix>/.scrconf
//	the program          SCR_Config, before SCR_Init
//	the system's file    /etc/scr.conf, or what the installation chose
//	the default          in the table Parameters, and nowhere else
//
// An empty value counts as none, also where expansion made it empty. In files,
// program settings and defaults $VAR and ${VAR} stand for variables of the
// environment, nothing where they are unset; $$ is a dollar sign. Two names
// are not left to the environment: $PWD is the directory the process works in,
// and $SCR_PREFIX the prefix directory that was decided on. The prefix decides
// where the user's file is, so that file cannot set it.
//
// Rank 0 reads the files and decides on parameters of scope Job. Parameters
// of scope Rank are found on each rank by the same rule, with that rank's
// environment. Items (GROUPS, STORE, CKPT) are decided on by rank 0, and all
// of one kind come from one place: as in SCR, a user who describes a
// checkpoint replaces the descriptors of the system's file, so that the two do not mix.
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

// Source says where the value of a field of Values came from, to which it takes
// a pointer: c.Source(&c.JobID).
func (c *Config) Source(field any) Source {
	for name, f := range fields(&c.Values) {
		if f == field {
			return c.values[name].source
		}
	}
	return Source{}
}

// Query answers what SCR_Config asks after SCR_Init: "NAME" for a parameter,
// "KIND=id FIELD" for a field of an item, "KIND" for the ids of all items. ok
// is false for what has no value. To ask for a change is an error.
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
