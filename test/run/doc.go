// Run is the command behind make quick, make test, make test-all and make test-times.
//
//	run [-all] [-mpi LIST] [-lanes N] [-minutes M] [NAME...]
//	run -quick [PACKAGE...]
//	run -times
//
// First it installs missing packages of the system and builds everything into
// build/MPI for each MPI. Then it runs jobs, several at a time: the Go tests, with
// the race detector where goroutines meet; the tests of what was built and
// installed (test/scripts/built); and the scripts of test/scripts. NAME is go,
// 10-library, 71-install or a script, each by its name or its number.
//
// A run tries samples of what is too much for each run, by the seed TEST_SEED, which
// by default comes from the commit. With -all (TEST_SIZE=all) it tries everything,
// and runs every script with each MPI. NAME implies each MPI too.
//
// Ranks that wait yield, since there are fewer cores than ranks: Open MPI has a setting for that. MPICH
// has none, and its tests preload test/scripts/yield.c. With -all, scripts with both MPIs do not.
//
// With -minutes (make test MINUTES=58) no job starts later than that. What is left out is named
// at the end; a run that leaves out more than half, by budgets, fails. It is for machines on
// which a run may take only so long: jobs that have begun run to their end.
//
// # Scripts
//
// A script of test/scripts has a line
//
//	# Test: both MPIs, 90 s
//
// that names the MPIs that it runs with ("both MPIs": its subject is the MPI; "one
// MPI": the seed draws it; "no MPI"; "openmpi"; "mpich") and its budget: the seconds that it takes
// on two idle cores at most. The budget decides the order of jobs, and stands in the
// table of times; a script that takes longer does not fail.
//
// It prints one line for each check, "ok NAME" or "not ok NAME". Its output is kept as
// build/tests/MPI/NAME.log. It must print a line every hour (TEST_TIMEOUT, in
// seconds). If it is silent, fails without a "not ok", or has no check, that counts as
// one failure. Its environment has
//
//	ROOT         the top directory of the sources, also its current directory
//	MPI, MPICC   openmpi or mpich, and its mpicc
//	BUILD        the directory of what make examples has built for this MPI, and of the
//	             programs steps and modes
//	TESTBED      the testbed command. TESTBED_DIR is for this script alone; no testbed
//	             is up there, and one that the script has left is brought down
//	WORK         an empty directory for this script alone, which is removed afterwards
//	ONCE         yes with the last MPI that the script runs with, else empty: what
//	             needs no MPI is tested if it is yes
//	LD_PRELOAD   yield.so, with MPICH; OMPI_MCA_mpi_yield_when_idle, with Open MPI
//	TEST_SEED, TEST_SIZE  as package sample has them
//
// GOSCR_SCREENSHOTS is an absolute directory, where the tests with a browser keep a
// picture of each page that they have opened (default build/screenshots).
//
// The last line is "N passed, M failed"; the exit status is 0 if M is 0.
package main
