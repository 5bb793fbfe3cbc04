"""`--active`: tests between nodes, on request: the plan, somebody's word, and the evidence that they give."""
