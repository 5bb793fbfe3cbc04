safe_yum() { LANG=en_US.UTF-8 yum "$@"; }
