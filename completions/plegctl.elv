
set edit:completion:arg-completer[plegctl] = { |@words|
    var index = (count $words)
    set index = (- $index 1)

    put (env _CLAP_IFS="\n" _CLAP_COMPLETE_INDEX=(to-string $index) PLEGCTL_COMPLETE="elvish" plegctl -- $@words) | to-lines
}

