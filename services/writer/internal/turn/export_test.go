package turn

// WaitRequests waits for the requests of turns that were cut off: they run on, and not all have begun.
func (w *Worker) WaitRequests() { w.requests.Wait() }
