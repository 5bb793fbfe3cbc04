# The recipes are the scripts, so that a machine without make loses nothing.
.PHONY: demo test soak setup clean

demo:
	scripts/demo
test:
	scripts/test
soak:
	scripts/soak
setup:
	scripts/setup
clean:
	rm -rf .venv .venvs build dist
