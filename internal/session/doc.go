// Package session is a rank's use of goscr: the calls of SCR, in the order that it allows.
//
// A Session keeps the state of the program: idle, writing a dataset, or restarting. Its methods are
// the calls, and its parts do what they need: opening has the steps of Init, writer creates and
// completes datasets, reader offers checkpoints, requests answers commands, and record describes the
// run to them. They leave the work to the packages below: lifecycle decides, node and prefix carry
// it out. cmd/libscr makes the C interface of it, and package scr the interface for Go programs.
//
// A checkpoint can be followed in output.go (StartOutput, Route, CompleteOutput), a restart
// in scr.go (Init), opening.go and restart.go.
//
// All methods that communicate are collective; Route is not. If a collective method fails on one
// rank, it returns an error on all ranks, so that all can react in the same way. The state of the
// session is then as before the call, with two exceptions: a dataset that could not be completed is
// deleted, and a checkpoint that could not be read is not offered again.
package session
