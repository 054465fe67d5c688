// Gdb is a program that stops with hashes for TestGDB.
package main

import "github.com/goscr/goscr/hash"

func main() {
	h := hash.New()
	h.SetInt("FILES", 2)
	h.At("RANK", "0")
	h.At("RANK", "1").SetValue("FILE", "a b")
	h.At("RANK", "1").SetInt("SIZE", 3)
	var none *hash.Hash
	number := 7
	stop()
	_, _, _ = h, none, number
}

//go:noinline
func stop() {}
