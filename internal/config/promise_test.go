package config

import (
	"fmt"
	"testing"

	"github.com/goscr/goscr/test/promised"
)

// Names of parameters, and what values they take.
func TestPromise(t *testing.T) {
	types := map[Type]string{Text: "text", Name: "name", Path: "path", Int: "whole number", Bool: "0 or 1", BoolOrAuto: "0, 1 or AUTO", Size: "bytes", Float: "number", Seconds: "seconds"}
	var lines []string
	for _, p := range Parameters {
		lines = append(lines, fmt.Sprintf("%s %s", p.Name, types[p.Type]))
	}
	promised.Compare(t, "parameters", lines)
}
