"""The backup store on disk: roots, generations, manifests and their verification. Knows no database and no SSH.

`paths` says which paths are acceptable, `root` whether a backup disk is the right one, `layout` how a generation is
written, published and removed, `manifest` what is in it, `verify` whether it can still be read.
Every refusal is a `paths.StoreError` whose text is one plain sentence for the person who reads it.
"""
