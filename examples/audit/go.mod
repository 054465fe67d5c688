module example.org/audit

go 1.24.0

require github.com/goscr/goscr v0.0.0

require (
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/klauspost/reedsolomon v1.13.3 // indirect
	golang.org/x/sys v0.41.0 // indirect
)

replace github.com/goscr/goscr => ../..
