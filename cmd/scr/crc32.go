package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/sys/checksum"
)

var crc32Command = command{
	names:    []string{"scr_crc32"},
	short:    "print the CRC-32 of files, as goscr records it",
	synopsis: []string{"FILE..."},
	long:     `Prints the checksum as a hexadecimal number such as 1b39e4e4, with the name of the file if there are several.`,
	examples: `    scr_crc32 ckpt.1200/rank_*`,
	see:      []string{"scr_index"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		f := c.facts(flags)
		return func(args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no file given; %w", errUsage)
			}
			all := map[string]string{}
			for _, path := range args {
				crc, err := fileCRC(path)
				if err != nil {
					return err
				}
				all[path] = fmt.Sprintf("%x", crc)
				if f.json {
					continue
				}
				if len(args) > 1 {
					fmt.Fprintf(c.out, "%x  %s\n", crc, path)
				} else {
					fmt.Fprintf(c.out, "%x\n", crc)
				}
			}
			if f.json {
				return c.encode(all)
			}
			return nil
		}
	},
}

func fileCRC(path string) (crc uint32, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		crc = checksum.Update(crc, buf[:n])
		if err == io.EOF {
			return crc, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
