// SPDX-License-Identifier: GPL-2.0
/*
 * labdcb: the data centre bridging half of a RoCE NIC, on a network card that has none.
 *
 * It attaches to the card `ifname` as soon as one of that name exists. From then on `dcb ets|pfc|app|maxrate|buffer|dcbx`
 * and `ethtool -a|-A` read and write state kept here, and `ethtool -S` also lists counters by priority under mlx5's names.
 * Packets are really sorted into priorities, by DSCP once a DSCP mapping is set and by VLAN tag before, so those counters
 * move with the traffic. Nothing is paused or shaped: the pause counters hold what was written to debugfs (labdcb/).
 *
 * What is refused and what is rounded follows drivers/net/ethernet/mellanox/mlx5/core (en_dcbnl.c, port_buffer.c) and
 * mlx4's rule that PFC and global pause exclude each other.
 */
#include <linux/debugfs.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_netdev.h>
#include <linux/rtnetlink.h>
#include <net/dcbnl.h>
#include <net/dsfield.h>

#define PRIORITIES IEEE_8021QAZ_MAX_TCS
#define DSCPS 64
#define NOT_MAPPED 0xff
#define RATE_UNIT_KBPS 100000	/* mlx5: 100 Mb/s */
#define BUFFER_CELL 256U
#define BUFFER_TOTAL (512U * 1024)

static char *ifname = "eth1";
module_param(ifname, charp, 0444);
MODULE_PARM_DESC(ifname, "the network card to attach to");

enum counter { RX_BYTES, RX_PACKETS, TX_BYTES, TX_PACKETS, TRAFFIC };
enum pause { RX_PAUSE, RX_PAUSE_DURATION, TX_PAUSE, TX_PAUSE_DURATION, PAUSE };

static const char * const traffic_names[TRAFFIC] = { "rx_prio%d_bytes", "rx_prio%d_packets", "tx_prio%d_bytes", "tx_prio%d_packets" };
static const char * const pause_names[PAUSE] = {
	"rx_prio%d_pause", "rx_prio%d_pause_duration", "tx_prio%d_pause", "tx_prio%d_pause_duration",
};

#define COUNTERS (PRIORITIES * (TRAFFIC + PAUSE))

/* Written under the RTNL, as every dcbnl and ethtool call is. The hooks read `map` and `mapped` without it. */
static struct {
	struct net_device *dev;
	const struct ethtool_ops *ethtool;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct ieee_maxrate maxrate;
	struct dcbnl_buffer buffer;
	u8 dcbx;
	bool rx_pause, tx_pause;
	u8 map[DSCPS];
	unsigned int mapped;
	atomic64_t traffic[PRIORITIES][TRAFFIC];
	u64 pause[PRIORITIES][PAUSE];
} lab;

static struct ethtool_ops lab_ethtool;
static struct dentry *lab_debugfs;

/* Data centre bridging */

static int lab_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = lab.ets;
	return 0;
}

static int lab_setets(struct net_device *dev, struct ieee_ets *ets)
{
	unsigned int share = 0, i;
	bool shared = false;

	for (i = 0; i < PRIORITIES; i++) {
		if (ets->prio_tc[i] >= PRIORITIES)
			return -EINVAL;
		switch (ets->tc_tsa[i]) {
		case IEEE_8021QAZ_TSA_STRICT:
		case IEEE_8021QAZ_TSA_VENDOR:
			break;
		case IEEE_8021QAZ_TSA_ETS:
			shared = true;
			share += ets->tc_tx_bw[i];
			break;
		default:
			return -EOPNOTSUPP;
		}
	}
	if (shared && share != 100)
		return -EINVAL;
	lab.ets = *ets;
	lab.ets.willing = 0;
	lab.ets.ets_cap = PRIORITIES;
	lab.ets.cbs = 0;
	return 0;
}

static int lab_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	unsigned int i;

	*pfc = lab.pfc;
	for (i = 0; i < PRIORITIES; i++) {
		pfc->requests[i] = lab.pause[i][TX_PAUSE];
		pfc->indications[i] = lab.pause[i][RX_PAUSE];
	}
	return 0;
}

static int lab_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	if (pfc->pfc_en && (lab.rx_pause || lab.tx_pause))
		return -EINVAL;
	lab.pfc.pfc_en = pfc->pfc_en;
	lab.pfc.delay = pfc->delay;
	return 0;
}

static int lab_getmaxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	*maxrate = lab.maxrate;
	return 0;
}

static int lab_setmaxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	unsigned int i;

	/* Whole units, and never none where a limit was asked for; 0 is no limit. */
	for (i = 0; i < PRIORITIES; i++) {
		u64 units = div_u64(maxrate->tc_maxrate[i], RATE_UNIT_KBPS);

		if (maxrate->tc_maxrate[i] && !units)
			units = 1;
		lab.maxrate.tc_maxrate[i] = units * RATE_UNIT_KBPS;
	}
	return 0;
}

static int lab_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = lab.buffer;
	return 0;
}

static int lab_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct dcbnl_buffer asked = { .total_size = BUFFER_TOTAL };
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < PRIORITIES; i++) {
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS || buffer->buffer_size[i] > BUFFER_TOTAL)
			return -EINVAL;
		asked.prio2buffer[i] = buffer->prio2buffer[i];
		asked.buffer_size[i] = round_up(buffer->buffer_size[i], BUFFER_CELL);
		sum += asked.buffer_size[i];
	}
	if (sum > BUFFER_TOTAL)
		return -EINVAL;
	lab.buffer = asked;
	return 0;
}

static void lab_unmap(u8 dscp)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP, .protocol = dscp, .priority = lab.map[dscp] };

	dcb_ieee_delapp(lab.dev, &app);
	WRITE_ONCE(lab.map[dscp], NOT_MAPPED);
	WRITE_ONCE(lab.mapped, lab.mapped - 1);
}

static int lab_setapp(struct net_device *dev, struct dcb_app *app)
{
	int error;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS || app->priority >= PRIORITIES)
		return -EINVAL;
	if (lab.map[app->protocol] == app->priority)
		return -EEXIST;
	error = dcb_ieee_setapp(dev, app);
	if (error)
		return error;
	/* One DSCP has one priority: the new mapping replaces the old. */
	if (lab.map[app->protocol] != NOT_MAPPED)
		lab_unmap(app->protocol);
	WRITE_ONCE(lab.map[app->protocol], app->priority);
	WRITE_ONCE(lab.mapped, lab.mapped + 1);
	return 0;
}

static int lab_delapp(struct net_device *dev, struct dcb_app *app)
{
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS)
		return -EINVAL;
	if (lab.map[app->protocol] != app->priority)
		return -ENOENT;
	lab_unmap(app->protocol);
	return 0;
}

static u8 lab_getdcbx(struct net_device *dev)
{
	return lab.dcbx;
}

static u8 lab_setdcbx(struct net_device *dev, u8 mode)
{
	if ((mode & DCB_CAP_DCBX_VER_CEE) || !(mode & DCB_CAP_DCBX_VER_IEEE))
		return 1;
	lab.dcbx = mode;
	return 0;
}

static const struct dcbnl_rtnl_ops lab_dcbnl = {
	.ieee_getets = lab_getets,
	.ieee_setets = lab_setets,
	.ieee_getpfc = lab_getpfc,
	.ieee_setpfc = lab_setpfc,
	.ieee_getmaxrate = lab_getmaxrate,
	.ieee_setmaxrate = lab_setmaxrate,
	.ieee_setapp = lab_setapp,
	.ieee_delapp = lab_delapp,
	.getdcbx = lab_getdcbx,
	.setdcbx = lab_setdcbx,
	.dcbnl_getbuffer = lab_getbuffer,
	.dcbnl_setbuffer = lab_setbuffer,
};

/* Global pause and counters */

static void lab_get_pauseparam(struct net_device *dev, struct ethtool_pauseparam *param)
{
	param->autoneg = 0;
	param->rx_pause = lab.rx_pause;
	param->tx_pause = lab.tx_pause;
}

static int lab_set_pauseparam(struct net_device *dev, struct ethtool_pauseparam *param)
{
	if (param->autoneg || (lab.pfc.pfc_en && (param->rx_pause || param->tx_pause)))
		return -EINVAL;
	lab.rx_pause = param->rx_pause;
	lab.tx_pause = param->tx_pause;
	return 0;
}

static int lab_get_sset_count(struct net_device *dev, int set)
{
	int own = lab.ethtool->get_sset_count ? lab.ethtool->get_sset_count(dev, set) : -EOPNOTSUPP;

	return set == ETH_SS_STATS ? max(own, 0) + COUNTERS : own;
}

static void lab_get_strings(struct net_device *dev, u32 set, u8 *data)
{
	unsigned int i, k;

	if (lab.ethtool->get_strings)
		lab.ethtool->get_strings(dev, set, data);
	if (set != ETH_SS_STATS)
		return;
	data += (lab_get_sset_count(dev, set) - COUNTERS) * ETH_GSTRING_LEN;
	for (i = 0; i < PRIORITIES; i++) {
		for (k = 0; k < TRAFFIC; k++)
			ethtool_sprintf(&data, traffic_names[k], i);
		for (k = 0; k < PAUSE; k++)
			ethtool_sprintf(&data, pause_names[k], i);
	}
}

static void lab_get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	unsigned int i, k;

	if (lab.ethtool->get_ethtool_stats)
		lab.ethtool->get_ethtool_stats(dev, stats, data);
	data += lab_get_sset_count(dev, ETH_SS_STATS) - COUNTERS;
	for (i = 0; i < PRIORITIES; i++) {
		for (k = 0; k < TRAFFIC; k++)
			*data++ = atomic64_read(&lab.traffic[i][k]);
		for (k = 0; k < PAUSE; k++)
			*data++ = lab.pause[i][k];
	}
}

/* Traffic */

static u8 lab_priority(const struct sk_buff *skb)
{
	u8 dscp, priority;

	if (!READ_ONCE(lab.mapped))
		return skb_vlan_tag_present(skb) ? skb_vlan_tag_get_prio(skb) : 0;
	if (skb->protocol == htons(ETH_P_IP) && skb_network_offset(skb) + sizeof(struct iphdr) <= skb_headlen(skb))
		dscp = ipv4_get_dsfield(ip_hdr(skb)) >> 2;
	else if (skb->protocol == htons(ETH_P_IPV6) && skb_network_offset(skb) + sizeof(struct ipv6hdr) <= skb_headlen(skb))
		dscp = ipv6_get_dsfield(ipv6_hdr(skb)) >> 2;
	else
		return 0;
	priority = READ_ONCE(lab.map[dscp]);
	/* The card's own default: the class selector bits. */
	return priority == NOT_MAPPED ? dscp >> 3 : priority;
}

static unsigned int lab_receive(void *unused, struct sk_buff *skb, const struct nf_hook_state *state)
{
	u8 priority = lab_priority(skb);

	atomic64_add(skb->len + ETH_HLEN, &lab.traffic[priority][RX_BYTES]);
	atomic64_inc(&lab.traffic[priority][RX_PACKETS]);
	return NF_ACCEPT;
}

static unsigned int lab_send(void *unused, struct sk_buff *skb, const struct nf_hook_state *state)
{
	u8 priority = lab_priority(skb);

	atomic64_add(skb->len, &lab.traffic[priority][TX_BYTES]);
	atomic64_inc(&lab.traffic[priority][TX_PACKETS]);
	return NF_ACCEPT;
}

static struct nf_hook_ops lab_hooks[] = {
	{ .hook = lab_receive, .pf = NFPROTO_NETDEV, .hooknum = NF_NETDEV_INGRESS, .priority = INT_MIN },
	{ .hook = lab_send, .pf = NFPROTO_NETDEV, .hooknum = NF_NETDEV_EGRESS, .priority = INT_MAX },
};

/* Coming and going, both under the RTNL */

static int lab_attach(struct net_device *dev)
{
	unsigned int i;
	int error;

	if (dev->dcbnl_ops)
		return -EBUSY;
	memset(&lab, 0, sizeof(lab));
	memset(lab.map, NOT_MAPPED, sizeof(lab.map));
	lab.pfc.pfc_cap = PRIORITIES;
	lab.ets.ets_cap = PRIORITIES;
	for (i = 0; i < PRIORITIES; i++)
		lab.ets.prio_tc[i] = i;
	lab.buffer.total_size = BUFFER_TOTAL;
	lab.buffer.buffer_size[0] = BUFFER_TOTAL / 2;
	lab.dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	lab.rx_pause = lab.tx_pause = true;
	for (i = 0; i < ARRAY_SIZE(lab_hooks); i++)
		lab_hooks[i].dev = dev;
	error = nf_register_net_hooks(dev_net(dev), lab_hooks, ARRAY_SIZE(lab_hooks));
	if (error)
		return error;
	dev_hold(dev);
	lab.dev = dev;
	lab.ethtool = dev->ethtool_ops;
	lab_ethtool = *lab.ethtool;
	lab_ethtool.get_pauseparam = lab_get_pauseparam;
	lab_ethtool.set_pauseparam = lab_set_pauseparam;
	lab_ethtool.get_sset_count = lab_get_sset_count;
	lab_ethtool.get_strings = lab_get_strings;
	lab_ethtool.get_ethtool_stats = lab_get_ethtool_stats;
	dev->ethtool_ops = &lab_ethtool;
	dev->dcbnl_ops = &lab_dcbnl;
	netdev_info(dev, "labdcb: attached\n");
	return 0;
}

static void lab_detach(void)
{
	unsigned int i;

	for (i = 0; i < DSCPS; i++)
		if (lab.map[i] != NOT_MAPPED)
			lab_unmap(i);
	lab.dev->dcbnl_ops = NULL;
	lab.dev->ethtool_ops = lab.ethtool;
	nf_unregister_net_hooks(dev_net(lab.dev), lab_hooks, ARRAY_SIZE(lab_hooks));
	dev_put(lab.dev);
	lab.dev = NULL;
}

static int lab_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);
	int error = 0;

	/* Registering the notifier replays NETDEV_REGISTER for the cards that are there already. */
	if (event == NETDEV_REGISTER && !lab.dev && net_eq(dev_net(dev), &init_net) && !strcmp(dev->name, ifname))
		error = lab_attach(dev);
	else if (event == NETDEV_UNREGISTER && dev == lab.dev)
		lab_detach();
	return notifier_from_errno(error);
}

static struct notifier_block lab_notifier = { .notifier_call = lab_event };

static int __init labdcb_init(void)
{
	char name[ETH_GSTRING_LEN];
	unsigned int i, k;
	int error = register_netdevice_notifier(&lab_notifier);

	if (error)
		return error;
	lab_debugfs = debugfs_create_dir("labdcb", NULL);
	for (i = 0; i < PRIORITIES; i++)
		for (k = 0; k < PAUSE; k++) {
			snprintf(name, sizeof(name), pause_names[k], i);
			debugfs_create_u64(name, 0600, lab_debugfs, &lab.pause[i][k]);
		}
	return 0;
}

static void __exit labdcb_exit(void)
{
	debugfs_remove(lab_debugfs);
	/* Replays NETDEV_UNREGISTER, which detaches. */
	unregister_netdevice_notifier(&lab_notifier);
}

module_init(labdcb_init);
module_exit(labdcb_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Data centre bridging state and per-priority counters on a network card of a test lab");
