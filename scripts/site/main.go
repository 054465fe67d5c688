// Site makes the documentation of goscr as a web site that needs no server and no network:
//
//	site SOURCES DIRECTORY
//
// SOURCES is the top directory of the sources. The pages are README.md, CONTRIBUTING.md and docs/*.md,
// in the order of sections; a page that is in no section is an error, and so is a link to a page, a
// heading or a file that is not there. The directory is made; files of an earlier site in it are replaced.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site SOURCES DIRECTORY")
		os.Exit(2)
	}
	s, err := read(os.Args[1])
	if err == nil {
		err = s.write(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s; begin at index.html\n", len(s.pages), os.Args[2])
}
