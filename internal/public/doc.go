// Package public has no code, only tests of what this module offers to others: that
// its public packages show nothing of internal ones, and that a module of its own
// can use them.
package public
