safe_yum() { LC_ALL=C.UTF-8 yum "$@"; }
