package main

// section is a part of the site, with its pages in the order in which they are best read.
type section struct {
	title string
	pages []string // their files in docs, without .md
}

// sections are all sections of the site. The decisions follow the last one, by their names.
var sections = []section{
	{"Start", []string{"../README", "start", "port"}},
	{"Use", []string{"use", "variables", "online", "bindings", "inside", "run", "shared-files", "debugging", "upgrade"}},
	{"Choose", []string{"choose", "reliability", "performance", "differences"}},
	{"Run a cluster", []string{"cluster", "logging", "scale"}},
	{"Trouble", []string{"trouble"}},
	{"Reference", []string{"api", "config", "commands", "formats"}},
	{"Develop", []string{"../CONTRIBUTING", "architecture", "packages", "go-runtime", "dependencies", "references", "thesis", "decisions/README"}},
}
