package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// manPage writes the manual page of a command from what --help prints, so that
// the two cannot differ.
func manPage(c *context, name string, x *command) {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	x.run(c, flags)
	fmt.Fprintf(c.out, ".TH %s 1 \"\" goscr\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), roff(name), roff(x.short))
	fmt.Fprintf(c.out, ".SH SYNOPSIS\n.B %s\n%s\n", roff(name), roff(x.use))
	if x.long != "" {
		fmt.Fprintf(c.out, ".SH DESCRIPTION\n")
		for line := range strings.Lines(x.long) {
			line = strings.TrimRight(line, "\n")
			switch {
			case line == "":
				fmt.Fprintln(c.out, ".PP")
			case strings.HasPrefix(line, "    "):
				fmt.Fprintf(c.out, ".nf\n%s\n.fi\n", roff(line))
			default:
				fmt.Fprintln(c.out, roff(line))
			}
		}
	}
	options := false
	flags.VisitAll(func(f *pflag.Flag) {
		if !options {
			fmt.Fprintln(c.out, ".SH OPTIONS")
			options = true
		}
		value, usage := pflag.UnquoteUsage(f)
		text := "--" + f.Name
		if f.Shorthand != "" {
			text = "-" + f.Shorthand + ", " + text
		}
		fmt.Fprintf(c.out, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(text+" "+value)), roff(usage))
	})
	fmt.Fprint(c.out, ".SH EXIT STATUS\n0: done, found or yes. 1: failed, not found or no. 2: called in the wrong way.\n")
	if len(x.names) > 1 {
		fmt.Fprintf(c.out, ".SH SEE ALSO\n%s\n", roff("Other names: "+strings.Join(x.names, ", ")+"."))
	}
}

// roff escapes what would mean something to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
