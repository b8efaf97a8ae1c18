"""All tests; a package of its own, as a dependency installs one of the same name that would otherwise be found."""
