#!/bin/sh
# rustc with AddressSanitizer for the packages of the workspace; cargo calls it as RUSTC_WORKSPACE_WRAPPER. Dependencies
# are built as ever: what they allocate and free is watched all the same, and so is all that our code reads and writes.
# RUSTC_BOOTSTRAP makes a stable compiler take an unstable flag. Nothing that is shipped is built with it; this is only
# a test, and a nightly compiler beside the stable one would be one more thing to install.
# Build scripts run outside the test; and what cargo asks about the compiler (a crate `___`) is answered as ever, else
# the C code of dependencies would be built with gcc's sanitizer.
case " $* " in
*" --crate-name build_script_build "* | *" --crate-name ___ "*) exec "$@" ;;
esac
RUSTC_BOOTSTRAP=1 exec "$@" -Zsanitizer=address
