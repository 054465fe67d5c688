module github.com/goscr/goscr

go 1.24.0

require golang.org/x/sys v0.41.0

require (
	github.com/klauspost/reedsolomon v1.13.3
	github.com/spf13/pflag v1.0.10
	mvdan.cc/sh/v3 v3.12.0
)

require github.com/klauspost/cpuid/v2 v2.3.0 // indirect
