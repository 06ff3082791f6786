// Package pkg holds what the services share: one noun a folder. It has no code of its own.
package pkg
