// Package formats has no code, only tests: they read the corpus of formats,
// testdata at the top of the module, which has files of every kind as this and
// earlier versions of goscr, SCR 3.1 and SCR 1.1 write them, and they hold the
// writers of this version to its part of the corpus.
//
//	write_test.go    what this version writes is what testdata/<current> has
//	read_test.go     every file says what says.txt beside it says
//	restart_test.go  jobs continue from the prefix directories and caches
//	scenes_test.go   the jobs whose files the corpus has
//	place_test.go    moves the files of a job to another directory
//	fuzz_test.go     readers of files that are damaged, seeded by the corpus
//	damage_test.go   jobs and commands, on files that are damaged behind their checksums
//	page_test.go     the pages that tell of the corpus name what is there
//
// testdata/README.md says how to add to it.
package formats
