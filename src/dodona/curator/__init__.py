"""The curator: answers a stream of questions about one dataset within its privacy budget."""
