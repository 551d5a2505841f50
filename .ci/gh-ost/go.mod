module tools

go 1.23.0

require github.com/github/gh-ost v1.1.8
