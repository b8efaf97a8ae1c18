"""The agents' door: programs that reason with language models ask by the Model Context Protocol (MCP).

- `spending`: what an agent may spend: every question is quoted, held to caps, and above a price agreed to by a person
- `tools`: the tools, the resource and the prompt, the same over stdio and over HTTP; `guidance`: their texts
- `http`: the address `/mcp` of a front

The official SDK takes a second to load, so `tools` alone imports it, and is itself loaded when the first agent comes.
"""
