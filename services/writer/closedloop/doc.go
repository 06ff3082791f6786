// Package closedloop measures the writer as a whole: real writers with their queue, ledger and lanes, a real
// redis-server, and the simulator as Google, in real time. Next to it run the ways of pacing that Calferry was built
// to replace. `make bench-pace` runs it; it takes about 18 minutes, most of which is waiting.
package closedloop
