"""What a stream of questions costs: the ladder beside simple ways, on streams that anybody can make again."""
