// Package feed gets the bytes of a calendar feed safely.
//
// A feed's address is typed by a person and may have been chosen by an attacker, and so may every byte
// that comes back. A [Client] therefore guarantees, for every hop of every fetch:
//
//   - The address that is dialled is public, or listed as allowed, or the feed was named at the command
//     line. It is checked after name resolution, on the very address the socket connects to, so neither a
//     redirect nor a name that changes its answer gets around it. Proxies from the environment are ignored.
//   - At most five redirects, never from https to http, and credentials stay with the origin they were
//     given for.
//   - Connecting, waiting for headers, waiting for more bytes and the whole fetch each have a limit, and
//     so have the decoded size and the ratio of decoded to received bytes.
//   - Errors name the host and never the address, which often is itself the password.
//
// The body is streamed and hashed while it is read. A body that ends early is reported by [Body.Cut], not
// as an error: what was read may add events, but it proves nothing about those that are missing.
package feed
