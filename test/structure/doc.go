// Package structure measures how the code of this module is laid out, and fails
// its test where that goes against docs/packages.md: an import upwards,
// files of a package that call each other in too large a cycle, or a type with
// too many fields or methods.
//
// It also checks that make help names all targets. It holds nothing but tests:
//
//	go test ./test/structure              whether the rules are kept
//	go test ./test/structure -v -run Table   the figures (make structure)
package structure
