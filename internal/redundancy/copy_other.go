//go:build !amd64

package redundancy

func copyNonTemporal(dst, src []byte) { copy(dst, src) }
