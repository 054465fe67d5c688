// Package oneprocessor lets only one thread run Go code at a time, from the first init function
// of the process on. Go begins with as many processors as the machine has, and starts a thread
// for each as soon as there is work: package main would set the number only after the init functions of
// all other packages. With many ranks on a node these threads are for nothing.
//
// Go initializes packages that import nothing else in the order of their paths. This one imports
// only runtime, and must not import more: the packages that it imports would come before it.
package oneprocessor

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
