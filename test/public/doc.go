// Package public has no code, only tests of the public packages of this module: that
// their exported names show no type of an internal package, and that another module can
// use them.
package public
