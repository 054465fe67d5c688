// Sethash sets fields of a hash file, for tests.
package main

import (
	"fmt"
	"os"

	"github.com/goscr/goscr/hash"
)

func main() {
	if len(os.Args) < 4 || len(os.Args)%2 != 0 {
		fmt.Fprintln(os.Stderr, "usage: sethash FILE KEY VALUE [KEY VALUE...]")
		os.Exit(2)
	}
	err := hash.Update(os.Args[1], func(h *hash.Hash) error {
		for i := 2; i < len(os.Args); i += 2 {
			h.SetValue(os.Args[i], os.Args[i+1])
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sethash:", err)
		os.Exit(1)
	}
}
