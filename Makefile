# The recipes are the scripts, so that a machine without make loses nothing.
.PHONY: demo test setup bench clean

demo:
	scripts/demo
test:
	scripts/test
setup:
	scripts/setup
bench:
	scripts/bench
clean:
	rm -rf .venv .venvs build dist
